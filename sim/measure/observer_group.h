#pragma once

#include <vector>

#include "sim/model/observer.h"

namespace periscope {

/// Several observers of one forward pass, told in their order.
class ObserverGroup final : public Observer {
 public:
  explicit ObserverGroup(std::vector<Observer*> members) : members_(std::move(members)) {}
  void on_input(const Tensor& x) override {
    for (Observer* o : members_) o->on_input(x);
  }
  void on_site(int sublayer, Signal site, const Tensor& x) override {
    for (Observer* o : members_) o->on_site(sublayer, site, x);
  }
  void on_inside(int sublayer, Signal place, const Tensor& x) override {
    for (Observer* o : members_) o->on_inside(sublayer, place, x);
  }

 private:
  std::vector<Observer*> members_;
};

/// Several observers of one backward pass, told in their order.
class GradientObserverGroup final : public GradientObserver {
 public:
  explicit GradientObserverGroup(std::vector<GradientObserver*> members) : members_(std::move(members)) {}
  void on_input(const Tensor& dx) override {
    for (GradientObserver* o : members_) o->on_input(dx);
  }
  void on_site(int sublayer, Signal site, const Tensor& dx) override {
    for (GradientObserver* o : members_) o->on_site(sublayer, site, dx);
  }
  void on_weight(int layer, Weight weight, const Tensor& dw) override {
    for (GradientObserver* o : members_) o->on_weight(layer, weight, dw);
  }
  void on_bias(int layer, Weight weight, const Tensor& dbias) override {
    for (GradientObserver* o : members_) o->on_bias(layer, weight, dbias);
  }
  void on_weight_input(int layer, Weight weight, const Tensor& dx) override {
    for (GradientObserver* o : members_) o->on_weight_input(layer, weight, dx);
  }
  void on_norm(int sublayer, NormSite site, const Tensor& dgain, const Tensor& dbias) override {
    for (GradientObserver* o : members_) o->on_norm(sublayer, site, dgain, dbias);
  }

 private:
  std::vector<GradientObserver*> members_;
};

}  // namespace periscope
